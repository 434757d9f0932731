"""The CDK app. `cdk synth` and `cdk deploy` run it, or run `python app.py`. It needs no credentials and no Docker."""

import os
import sys
from pathlib import Path

from tools.declarations import InvalidDeclarations, check_declarations


def main() -> None:
    """Write the synthesized templates and assets to the folder that the CDK's command line names."""
    try:
        check_declarations()
    except InvalidDeclarations as wrong:
        sys.exit(str(wrong))
    from stacks import PROJECT, stage, synth_cache  # noqa: PLC0415  they import the model, which is checked first

    folder = Path(os.environ.get(synth_cache.OUTPUT_VARIABLE) or PROJECT / "build" / "cdk.out")
    try:
        context = synth_cache.context_from_environment()
        stage.check_complete(context)
        synth_cache.copy_assembly(folder, context)
    except stage.InvalidSetting as wrong:
        sys.exit(f"{wrong}.")
    except synth_cache.SynthFailed as failed:
        sys.exit(str(failed))


if __name__ == "__main__":
    main()
