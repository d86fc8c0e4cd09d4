"""Recipes that remake published results. Nothing else imports them."""
