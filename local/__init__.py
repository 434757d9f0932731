"""The laptop: the synthesized stack and the real handlers, running without Docker or an AWS account."""
