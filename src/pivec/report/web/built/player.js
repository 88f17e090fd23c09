// Made by `make page` from player_page.ts: 'sha256-WHBH+fL+Tw0/fcIHKcBYFTZQal/YczdpaI6QBDkfhTE='
(()=>{document.documentElement.classList.add("ready");})();
