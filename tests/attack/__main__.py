"""`python -m tests.attack`: see `runner.py`."""

from tests.attack.runner import main

if __name__ == "__main__":
    main()
