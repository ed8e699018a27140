"""Every setting: its name, type, bounds, default and meaning, each written once. A module holds a group of sections."""
