"""`python -m invlift` is the command `invlift`."""

from invlift.cli import main

if __name__ == "__main__":
    main()
