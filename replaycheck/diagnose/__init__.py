"""Why a cell failed: the first wrong step, layer and head, the cause by name, the smallest case that still fails."""
