"""Names and things that the prompts are filled with."""

from __future__ import annotations

NAMES = (
    "Ada", "Bruno", "Clara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas",
    "Karim", "Leila", "Marta", "Nils", "Olga", "Pablo", "Quinn", "Rosa", "Sami", "Tilda",
    "Umar", "Vera", "Wanda", "Xavi", "Yara", "Zeno",
)  # fmt: skip
TOWNS = (
    "Ambrough", "Bellholt", "Carrow", "Dunmere", "Eastwick Bay", "Farrowgate", "Glenmoor",
    "Harrowfield", "Islebury", "Kestrel Point", "Larchwood", "Millhaven", "Northbeck", "Oakridge",
    "Pinehurst", "Quarrydale", "Rosewater", "Stonebridge", "Thornbury", "Westmarsh",
)  # fmt: skip
GOODS = (
    "apples", "notebooks", "candles", "tickets", "tiles", "bottles", "seedlings", "mugs",
    "postcards", "bolts", "jars of honey", "light bulbs", "bricks", "scarves", "batteries",
)  # fmt: skip
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "orange", "purple")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
