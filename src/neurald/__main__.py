"""`python -m neurald` is the `neurald` command."""

from neurald.service.cli import main

if __name__ == "__main__":
    main()
