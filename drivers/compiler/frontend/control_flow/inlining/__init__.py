"""IF and WHILE, inlined as branches and loops, or unrolled."""
