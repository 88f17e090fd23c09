// Saves what is shown as files.
import { byId } from "./format";

export const save = (name: string, content: Blob) => {
  const address = URL.createObjectURL(content),
    node = document.createElement("a");
  node.href = address;
  node.download = name;
  node.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
};

/** Join the canvases of a picture, the lowest first, and save it as it is seen. */
export const savePicture = (name: "map" | "heatmap") => {
  const layers: HTMLCanvasElement[] =
    name === "map" ? [byId("map-points"), byId("map-overlay")] : [byId("heatmap")];
  const canvas = document.createElement("canvas");
  canvas.width = layers[0].width;
  canvas.height = layers[0].height;
  const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--paper");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (const layer of layers) pen.drawImage(layer, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => blob && save(`${name}.png`, blob));
};
