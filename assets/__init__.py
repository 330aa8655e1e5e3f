"""Knowledge as data: TOML tables with their sources, recorded machines, translations."""
