"""Named derived numbers: each defined once, compiled to PromQL text and evaluated over a history."""
