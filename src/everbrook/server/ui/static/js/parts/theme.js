// Dark, light, or as the system has it.

export const THEMES = ["system", "light", "dark"];

export function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
