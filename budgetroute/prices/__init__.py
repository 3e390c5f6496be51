"""What models cost and can do.

A price is known only if input and output are numbers above zero in litellm's price map, or in
config. What the map cannot say is never $0: `UnpricedModel` names the model and the line to write.
"""

from budgetroute.prices.book import PriceBook
from budgetroute.prices.sanity import Gap, check_against, gaps
from budgetroute.prices.written import PRICE_CLASSES, price_from_config

__all__ = ["PRICE_CLASSES", "Gap", "PriceBook", "check_against", "gaps", "price_from_config"]
