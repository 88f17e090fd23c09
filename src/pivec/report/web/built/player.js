// Made by `make page` from player_page.ts: 'sha256-5hVG0K8N+ZnfcpKeX1KP+EY31s7SVNWA1S3D9EmoJFA='
(()=>{document.documentElement.classList.add("ready");})();
