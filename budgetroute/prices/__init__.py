"""What models cost and can do.

A price is known only if input and output are numbers above zero in litellm's price map, or in
config. What the map cannot say is never $0: `UnpricedModel` names the model and the line to write.
"""

from budgetroute.prices.book import PriceBook
from budgetroute.prices.written import price_from_config

__all__ = ["PriceBook", "price_from_config"]
