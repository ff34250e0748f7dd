//: Location of the patches of an image, see patch.py.

//: [place]
//: Location of patch `spot`: its image, its first output position, and its first input position,
//: which may lie outside the image.
  const int image = spot / $SPOTS, y0 = spot % $SPOTS / $SPOTS_ACROSS * $LINES, x0 = spot % $SPOTS_ACROSS * $LENGTH;
  const int top = y0 * $STRIDE_Y - $PAD_Y, left = x0 * $STRIDE_X - $PAD_X;
