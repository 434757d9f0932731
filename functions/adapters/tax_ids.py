"""Check tax ids of businesses by form and checksum, without a request to any authority.

A tax id that passes may still belong to nobody: only a service such as the EU's VIES knows
(https://ec.europa.eu/taxation_customs/vies/).
"""

from functions.model.errors import InvalidInput
from functions.shop.taxes import country_of_tax_id


def parse_tax_id(text: str, field: str = "tax_id") -> str:
    """Return a tax id without separators, in capitals. Raises InvalidInput, which names `field`, if it is not valid."""
    # Imported only here: few orders have a tax id, and the modules of the countries would slow down every cold start.
    from stdnum import get_cc_module  # noqa: PLC0415
    from stdnum.exceptions import ValidationError  # noqa: PLC0415

    prefix, country = text[:2].upper(), country_of_tax_id(text[:2].upper())
    module = get_cc_module("gr" if prefix == "EL" else country.lower(), "vat") if prefix.isalpha() else None
    if module is None:
        raise InvalidInput(field, "must begin with the two letters of its country, such as ATU12345675")
    try:
        # Not every country counts its two letters as a part of the number.
        number = module.validate(text if module.is_valid(text) else text[2:])
    except ValidationError:
        raise InvalidInput(field, f"is not a valid tax id of {country}") from None
    return number if number.startswith(prefix) else f"{prefix}{number}"
