"""The arithmetic that runs over every user–item pair."""
