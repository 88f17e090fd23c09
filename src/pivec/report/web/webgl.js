// The painter on a graphics card (WebGL2): the same picture as that of pixels.js.
import { count, counted } from "./painter.js";

/** @typedef {import("./painter.js").Scene} Scene @typedef {import("./painter.js").Look} Look */

const HEAD = "#version 300 es\nprecision highp float;uniform vec2 size;uniform vec3 look;uniform vec4 form;";
const PLACED = "vec2 placed(vec2 p){return vec2(look.x+p.x*look.z,look.y-p.y*look.z);}" +
  "vec4 clip(vec2 p){return vec4(p.x/size.x*2.-1.,1.-p.y/size.y*2.,0,1);}" +
  "vec2 corner(){return vec2(gl_VertexID&1,gl_VertexID>>1)*2.-1.;}";
// form: radius, width of edges, width of hollow rims, side of squares
const POINT = HEAD + "layout(location=0)in float x;layout(location=1)in float y;layout(location=2)in vec4 colour;layout(location=3)in float shape;" +
  "uniform vec4 paper,rim;out vec2 off;flat out vec4 body,edge;flat out vec3 radii;" + PLACED +
  "void main(){int s=int(shape),k=s&3;bool hollow=s>3;vec2 m=floor(placed(vec2(x,y))*4.+.5)/4.;" +
  "float r=form.x*(k==2?.62:k==1?.81317:1.),h=hollow?form.z/2.:form.y/2.,reach=(r+h+1.)*(k==1?1.41422:1.);" +
  "body=hollow?paper:colour;edge=h==0.?body:hollow?rim:paper;radii=vec3(r+h+.5,h==0.?1e9:r-h+.5,k);" +
  "if(k==3){m=placed(vec2(x,y));reach=form.w/2.;vec2 c=corner();off=vec2(0);radii=vec3(9,9,3);gl_Position=clip(floor(m+c*reach+.5));return;}" +
  "off=corner()*reach;gl_Position=clip(m+off);}";
const POINT_COLOUR = HEAD + "in vec2 off;flat in vec4 body,edge;flat in vec3 radii;out vec4 seen;" +
  "void main(){float d=radii.z==1.?(abs(off.x)+abs(off.y))/1.41421356:length(off);" +
  "seen=vec4(mix(edge.rgb,body.rgb,clamp(radii.y-d,0.,1.)),clamp(radii.x-d,0.,1.));}";
// form: half the width, alpha, 1 for bands
const LINE = HEAD + "layout(location=0)in vec4 ends;layout(location=1)in vec4 colour;out float off;flat out vec4 body;flat out float narrow;" + PLACED +
  "void main(){vec2 a=placed(ends.xy),b=placed(ends.zw),d=b-a,c=corner();float l=length(d);d=l>0.?d/l:vec2(1,0);" +
  "off=c.y*(form.x+1.);body=colour;narrow=max(abs(d.x),abs(d.y));gl_Position=clip((c.x<0.?a:b)+vec2(-d.y,d.x)*off);}";
const LINE_COLOUR = HEAD + "uniform vec4 paper,rim;in float off;flat in vec4 body;flat in float narrow;out vec4 seen;" +
  "void main(){float c=clamp((form.x-abs(off))/narrow+.5,0.,1.);seen=form.z>0.?vec4(mix(paper.rgb,rim.rgb,c),1):vec4(body.rgb,c*form.y);}";

/** @param {number} colour */
const parted = (colour) => [(colour & 255) / 255, ((colour >> 8) & 255) / 255, ((colour >> 16) & 255) / 255, 1];

/** @param {WebGL2RenderingContext} gl @returns {import("./painter.js").Painter | null} */
export const webglPainter = (gl) => {
  const canvas = /** @type {HTMLCanvasElement} */ (gl.canvas);
  const built = (/** @type {string[]} */ ...sources) => {
    const program = gl.createProgram();
    sources.forEach((source, k) => {
      const shader = /** @type {WebGLShader} */ (gl.createShader(k ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER));
      gl.shaderSource(shader, source); gl.compileShader(shader); gl.attachShader(program, shader);
    });
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
    const place = (/** @type {string} */ name) => gl.getUniformLocation(program, name);
    return { program, size: place("size"), look: place("look"), form: place("form"), paper: place("paper"), rim: place("rim") };
  };
  const points = built(POINT, POINT_COLOUR), lines = built(LINE, LINE_COLOUR);
  if (!points || !lines) return null;
  /** @type {Scene} */ let scene;
  const instances = (/** @type {number[][]} */ ...columns) => {
    // A column: how many numbers a point, 1 for bytes that are shares and 2 for bytes that are numbers.
    const array = gl.createVertexArray(), buffers = columns.map(() => gl.createBuffer());
    gl.bindVertexArray(array);
    columns.forEach(([size, bytes], k) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers[k]);
      gl.enableVertexAttribArray(k);
      gl.vertexAttribPointer(k, size, bytes ? gl.UNSIGNED_BYTE : gl.FLOAT, bytes === 1, 0, 0);
      gl.vertexAttribDivisor(k, 1);
    });
    return { array, fill: (/** @type {any[]} */ ...values) => values.forEach((column, k) => { gl.bindBuffer(gl.ARRAY_BUFFER, buffers[k]); gl.bufferData(gl.ARRAY_BUFFER, column, gl.DYNAMIC_DRAW); }) };
  };
  const POINTS = [[1, 0], [1, 0], [4, 1], [1, 2]], LINES = [[4, 0], [4, 1]];
  const all = instances(...POINTS), squares = instances(...POINTS), along = instances(...LINES), bands = instances(...LINES);
  /** @param {any} use @param {Look} look @param {{array: WebGLVertexArrayObject}} what @param {number} n @param {number[]} form @param {number} rim */
  const draw = (use, look, what, n, form, rim, x = look.x, y = look.y, scale = look.scale) => {
    gl.useProgram(use.program);
    gl.uniform2f(use.size, look.width, look.height); gl.uniform3f(use.look, x, y, scale);
    gl.uniform4fv(use.form, form); gl.uniform4fv(use.paper, parted(scene.paper)); gl.uniform4fv(use.rim, parted(rim));
    gl.bindVertexArray(what.array);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, n);
  };
  gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  return {
    name: "webgl",
    load: (given) => {
      scene = given;
      const { n, nLines, nBands } = scene;
      all.fill(scene.x.subarray(0, n), scene.y.subarray(0, n), scene.colour.subarray(0, n), scene.shape.subarray(0, n));
      along.fill(scene.lines.subarray(0, 4 * nLines), scene.lineColour.subarray(0, nLines));
      bands.fill(scene.bands.subarray(0, 4 * nBands), new Uint32Array(nBands));
    },
    paint: (look) => {
      if (canvas.width !== look.width || canvas.height !== look.height) { canvas.width = look.width; canvas.height = look.height; }
      gl.viewport(0, 0, look.width, look.height);
      const [r, g, b] = parted(scene.paper);
      gl.clearColor(r, g, b, 1); gl.clear(gl.COLOR_BUFFER_BIT);
      const form = [look.radius, look.edge, look.hollow, look.cell];
      if (look.cell) {
        count(scene, look);
        squares.fill(counted.x.subarray(0, counted.n), counted.y.map((v) => -v).subarray(0, counted.n), counted.colour.subarray(0, counted.n), counted.shape.subarray(0, counted.n));
        draw(points, look, squares, counted.n, form, scene.rim, 0, 0, 1);
        return;
      }
      if (look.bandHalf) {
        gl.blendEquation((scene.band & 0xff00) < (scene.paper & 0xff00) ? gl.MIN : gl.MAX);
        draw(lines, look, bands, scene.nBands, [look.bandHalf, 1, 1, 0], scene.band);
        gl.blendEquation(gl.FUNC_ADD);
      }
      if (look.lineHalf) draw(lines, look, along, scene.nLines, [look.lineHalf, look.lineAlpha, 0, 0], scene.rim);
      draw(points, look, all, scene.n, form, scene.rim);
    },
  };
};
