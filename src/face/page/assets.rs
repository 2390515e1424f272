//! The files of the page, as they are in `web`: no build step, and nothing from elsewhere.

use std::sync::OnceLock;

use crate::api::Response;
use crate::feed::run_hash;

/// What a browser may do for the page: its own scripts, styles and requests, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A file of the page.
#[derive(Debug)]
pub(super) struct Asset {
    name: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal),* $(,)?) => {
        &[$(Asset { name: $name, text: include_str!(concat!("web/", $name)) }),*]
    };
}

const ASSETS: &[Asset] = assets![
    "answers.js",
    "api.js",
    "backoff.js",
    "board.js",
    "board_feed.js",
    "board_view.js",
    "connection.js",
    "copy.js",
    "dom.js",
    "help.js",
    "history_view.js",
    "index.html",
    "keys.js",
    "line_element.js",
    "lines.js",
    "lines_view.js",
    "main.js",
    "places.js",
    "question.js",
    "row_item.js",
    "row_view.js",
    "screen_cells.js",
    "screen_view.js",
    "search.js",
    "sgr.js",
    "sse.js",
    "stream.js",
    "style.css",
    "text.js",
    "theme.js",
    "time.js",
    "timeline.js",
    "timeline_model.js",
    "token.js",
    "viewed.js",
    "words.js",
];

/// Returns the file at a path.
pub(super) fn find(path: &[&str]) -> Option<&'static Asset> {
    let name = match *path {
        [] => "index.html",
        ["web", name] => name,
        _ => return None,
    };
    ASSETS.iter().find(|asset| asset.name == name)
}

/// Returns a text that is another one if any file differs.
pub(super) fn tag() -> &'static str {
    static TAG: OnceLock<String> = OnceLock::new();
    TAG.get_or_init(|| {
        let all: String = ASSETS.iter().map(|asset| asset.text).collect();
        format!("{:016x}", run_hash(&all))
    })
}

impl Asset {
    pub fn response(&self) -> Response {
        let kind = match self.name.rsplit_once('.') {
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "text/html; charset=utf-8",
        };
        Response::text(kind, self.text)
            .header("Content-Security-Policy", POLICY.to_owned())
            .header("Cross-Origin-Opener-Policy", "same-origin".to_owned())
            .header("Cross-Origin-Resource-Policy", "same-origin".to_owned())
            .header("Referrer-Policy", "no-referrer".to_owned())
            .header("X-Frame-Options", "DENY".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_served() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/face/page/web");
        let files = std::fs::read_dir(directory).unwrap();
        let mut files: Vec<String> = files
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        // It tells node that the modules are modules.
        files.retain(|name| name != "package.json");
        files.sort();
        let served: Vec<&str> = ASSETS.iter().map(|asset| asset.name).collect();
        assert_eq!(served, files);
    }

    #[test]
    fn the_page_is_small_and_has_no_inline_code() {
        let size: usize = ASSETS.iter().map(|asset| asset.text.len()).sum();
        assert!(size < 150 * 1024, "{size} bytes");
        let page = find(&[]).unwrap().text;
        for wrong in [
            "<script>", " style=", " onclick", " onload", "http://", "https://",
        ] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        for asset in ASSETS {
            for wrong in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "eval(",
                "document.write",
            ] {
                assert!(!asset.text.contains(wrong), "{}: {wrong}", asset.name);
            }
        }
        assert!(!POLICY.contains("unsafe"));
    }
}
