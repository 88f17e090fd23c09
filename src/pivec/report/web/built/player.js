// Made by `make page` from player_page.ts: 'sha256-+wC64REcC7C+I0ygKyfkGN5jqxqWEOItaqegJUShyHg='
(()=>{document.documentElement.classList.add("ready");})();
