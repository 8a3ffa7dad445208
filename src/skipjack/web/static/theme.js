// Runs before the page is drawn, so that it does not flash in the other colors.
"use strict";
(() => {
  let theme = null;
  try { theme = localStorage.getItem("skipjack-theme"); } catch { /* storage is switched off */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
