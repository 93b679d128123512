// Reads the data and builds the page; says on the page when that fails.

(async () => {
  const page = document.getElementById("page");
  try {
    window.view = new View(page, await readData());
    requestAnimationFrame(() => { document.documentElement.dataset.ready = Math.round(performance.now()); });
  } catch (error) {
    page.replaceChildren(make("p", { class: "failed", role: "alert" }, `This page could not be shown: ${error.message}`));
    throw error;
  }
})();
