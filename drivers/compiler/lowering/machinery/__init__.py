"""What every lowering is made with: the type of a lowering, and the layouts of images."""
