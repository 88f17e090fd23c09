// Made by `make page` from player_page.ts: 'sha256-m9cDNoc7EmoXtHouEnl2vhwSwqOkWaeE35+uGfO3j2w='
(()=>{document.documentElement.classList.add("ready");})();
