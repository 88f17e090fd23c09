// Starts the players of clips in pages without the workbench, whose pictures are there already.
import { type Clip, player } from "./player";

for (const box of document.querySelectorAll<HTMLElement>("[data-clip]")) {
  const clip: Clip = JSON.parse(box.dataset.clip!);
  const images = box.querySelectorAll("img");
  clip.sheets.forEach((sheet, side) => {
    sheet.src = images[side].src;
  });
  player(box, clip);
}
document.documentElement.classList.add("ready");
