"""Every setting: its name, type, bounds, default and meaning, each written once, a module for each section."""
