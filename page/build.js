// Bundles the page into one HTML file, with the licences of all that it contains.
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../trustgraph_prompt/graph_store/page_files";

const read = (file) => readFileSync(new URL(file, import.meta.url), "utf8");
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const bundle = async (file) =>
  build({
    entryPoints: [file],
    absWorkingDir: import.meta.dirname,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    legalComments: "none",
    metafile: true,
    write: false,
  });

const script = await bundle("src/main.js");
const style = (await bundle("src/page.css")).outputFiles[0].text;
const code = script.outputFiles[0].text.replaceAll("</script", "<\\/script");

const packages = Object.keys(script.metafile.inputs).map((file) => /node_modules\/([^/]+)\//.exec(file)?.[1]);
const licences = [...new Set(packages.filter(Boolean))].sort().map((name) => {
  const { version } = JSON.parse(read(`node_modules/${name}/package.json`));
  const file = name === "events" ? "LICENSE" : "LICENSE.txt";
  return `${name} ${version}\n\n${read(`node_modules/${name}/${file}`).trim()}\n`;
});
const notice = `This page contains these libraries:\n\n${licences.join("\n\n")}`;

const sources = ["build.js", "package-lock.json", "package.json", ...readdirSync(new URL("src", import.meta.url)).map((file) => `src/${file}`).sort()];
const digest = createHash("sha256").update(sources.map(read).join("")).digest("hex");

const policy = [
  "default-src 'none'",
  `script-src ${hash(code)}`,
  `style-src ${hash(style)}`,
  "worker-src blob:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const page = read("src/page.html")
  .replace("{{digest}}", digest)
  .replace("{{notice}}", () => notice.replaceAll("--", "- -"))
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => code);

const out = new URL(`${OUT}/`, import.meta.url);
mkdirSync(out, { recursive: true });
writeFileSync(new URL("page.html", out), page);
writeFileSync(new URL("LICENSES.txt", out), notice);
