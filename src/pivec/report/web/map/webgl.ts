// The painter on a graphics card (WebGL2): the same picture as that of pixels.js.
import type { Look, Scene } from "./painter";
import { count, counted } from "./painter";

// u: size of the canvas; middle and scale; form of points or lines; colours of the paper and of hollow rims
const HEAD = "#version 300 es\nprecision highp float;uniform vec4 u[5];";
const PLACES =
  "layout(location=1)in vec4 colour;flat out vec4 body;vec2 placed(vec2 p){return u[1].xy+vec2(p.x,-p.y)*u[1].z;}" +
  "void put(vec2 p){gl_Position=vec4(p.x/u[0].x*2.-1.,1.-p.y/u[0].y*2.,0,1);}vec2 corner(){return vec2(gl_VertexID&1,gl_VertexID>>1&1)*2.-1.;}";
// form: radius, width of edges, width of hollow rims, side of squares
const POINT =
  HEAD +
  PLACES +
  "layout(location=0)in vec2 at;layout(location=2)in float shape;out vec2 off;flat out vec4 edge;flat out vec3 radii;" +
  "void main(){int s=int(shape),k=s&3;bool hollow=s>3;vec2 m=placed(at);float r=u[2].x*(k==2?.62:k==1?.81317:1.),h=(hollow?u[2].z:u[2].y)/2.;" +
  "body=hollow?u[3]:colour;edge=hollow?u[4]:u[3];radii=vec3(r+h+.5,h==0.?1e9:r-h+.5,k);off=corner()*(r+h+1.)*(k==1?1.42:1.);" +
  "if(k==3){put(floor(m+corner()*u[2].w/2.+.5));off=vec2(0);radii.xy=vec2(9);}else put(floor(m*4.+.5)/4.+off);}";
const POINT_COLOUR =
  HEAD +
  "in vec2 off;flat in vec4 body,edge;flat in vec3 radii;out vec4 seen;" +
  "void main(){float d=radii.z==1.?(abs(off.x)+abs(off.y))/1.41421356:length(off);seen=vec4(mix(edge,body,clamp(radii.y-d,0.,1.)).rgb,clamp(radii.x-d,0.,1.));}";
// form: half the width, alpha (0 for bands)
const LINE =
  HEAD +
  PLACES +
  "layout(location=0)in vec4 ends;out float off;flat out float narrow;" +
  "void main(){vec2 a=placed(ends.xy),b=placed(ends.zw),d=b-a,c=corner();d=a==b?vec2(1,0):normalize(d);" +
  "off=c.y*(u[2].x+1.);body=colour;narrow=max(abs(d.x),abs(d.y));put((c.x<0.?a:b)+vec2(-d.y,d.x)*off);}";
const LINE_COLOUR =
  HEAD +
  "in float off;flat in vec4 body;flat in float narrow;out vec4 seen;" +
  "void main(){float c=clamp((u[2].x-abs(off))/narrow+.5,0.,1.);seen=u[2].y>0.?vec4(body.rgb,c*u[2].y):mix(u[3],body,c);}";

const parted = (colour: number) => [0, 8, 16, 24].map((k) => ((colour >>> k) & 255) / 255);

export const webglPainter = (gl: WebGL2RenderingContext): import("./painter").Painter | null => {
  const built = (...sources: string[]) => {
    const program = gl.createProgram();
    sources.forEach((source, k) => {
      const shader = gl.createShader(k ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER) as WebGLShader;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    });
    gl.linkProgram(program);
    return program;
  };
  // Each thing is two triangles, its numbers written for all four corners: instances of so few corners are slow on many cards.
  const corners = gl.createBuffer();
  let most = 0;
  /** `n`: things whose corners are joined to triangles. */
  const join = (n: number) => {
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, corners);
    if (n <= most) return;
    most = n;
    const order = new Uint32Array(6 * n);
    for (let k = 0; k < order.length; k++)
      order[k] = 4 * Math.floor(k / 6) + [0, 1, 2, 2, 1, 3][k % 6];
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, order, gl.STATIC_DRAW);
  };
  /** `size`: numbers a place: places, colours and shapes of things to draw. */
  const things = (size: number) => {
    const array = gl.createVertexArray(),
      widths = [size, 1, 1],
      buffers = [0, 1, 2].map((k) => {
        const buffer = gl.createBuffer();
        gl.bindVertexArray(array);
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.enableVertexAttribArray(k);
        gl.vertexAttribPointer(k, [size, 4, 1][k], k ? gl.UNSIGNED_BYTE : gl.FLOAT, k === 1, 0, 0);
        return buffer;
      });
    let n = 0;
    return {
      load: (many: number, ...columns: any[]) => {
        n = many;
        gl.bindVertexArray(array);
        join(n);
        columns.forEach((column, k) => {
          const width = widths[k],
            all = new column.constructor(4 * width * n);
          for (let i = 0, at = 0; i < n; i++)
            for (let c = 0; c < 4; c++)
              for (let j = 0; j < width; j++) all[at++] = column[i * width + j];
          gl.bindBuffer(gl.ARRAY_BUFFER, buffers[k]);
          gl.bufferData(gl.ARRAY_BUFFER, all, gl.DYNAMIC_DRAW);
        });
      },
      draw: (
        program: WebGLProgram,
        look: Look,
        form: number[],
        x = look.x,
        y = look.y,
        scale = look.scale,
      ) => {
        gl.useProgram(program);
        gl.uniform4fv(gl.getUniformLocation(program, "u"), [
          look.width,
          look.height,
          0,
          0,
          x,
          y,
          scale,
          0,
          ...form,
          ...parted(scene.paper),
          ...parted(scene.rim),
        ]);
        gl.bindVertexArray(array);
        gl.drawElements(gl.TRIANGLES, 6 * n, gl.UNSIGNED_INT, 0);
      },
    };
  };
  const point = built(POINT, POINT_COLOUR),
    line = built(LINE, LINE_COLOUR),
    points = things(2),
    squares = things(2),
    lines = things(4),
    bands = things(4);
  if (![point, line].every((program) => gl.getProgramParameter(program, gl.LINK_STATUS)))
    return null;
  let scene: Scene;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
  return {
    name: "webgl",
    load: (given) => {
      scene = given;
      points.load(scene.n, scene.points, scene.colour, scene.shape);
      lines.load(scene.nLines, scene.lines, scene.lineColour);
      bands.load(scene.nBands, scene.bands, new Uint32Array(scene.nBands).fill(scene.band));
    },
    paint: (look) => {
      const { width, height, cell } = look,
        [r, g, b] = parted(scene.paper),
        form = [look.radius, look.edge, look.hollow, cell];
      if (gl.canvas.width !== width || gl.canvas.height !== height)
        Object.assign(gl.canvas, { width, height });
      gl.viewport(0, 0, width, height);
      gl.clearColor(r, g, b, 1);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (cell) {
        count(scene, look);
        squares.load(counted.n, counted.points, counted.colour, counted.shape);
        return squares.draw(point, look, form, 0, 0, 1);
      }
      if (look.band) {
        gl.blendEquation((scene.band & 0xff00) < (scene.paper & 0xff00) ? gl.MIN : gl.MAX);
        bands.draw(line, look, [look.band, 0, 0, 0]);
        gl.blendEquation(gl.FUNC_ADD);
      }
      if (look.line) lines.draw(line, look, [look.line, look.alpha, 0, 0]);
      return points.draw(point, look, form);
    },
  };
};
