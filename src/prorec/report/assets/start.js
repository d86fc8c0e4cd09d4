// The theme (light, dark, or that of the system), and the start of the other parts.

const THEMES = { "": "system", light: "light", dark: "dark" };

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme").textContent = "Theme: " + THEMES[theme];
}

byId("theme").onclick = () => {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme || "") + 1) % names.length]);
};
for (const part of document.querySelectorAll(".needs-script")) part.hidden = false;
startVerdicts();
startTable();
startUser();
startIssueTables();
