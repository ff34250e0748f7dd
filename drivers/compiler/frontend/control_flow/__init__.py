"""IF and WHILE, as blocks of operations between loops and branches."""
