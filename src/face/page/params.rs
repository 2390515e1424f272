//! The parameters of requests for the page's data (pure).

use crate::api::{Request, Response};
use crate::face::view_lines::LineView;

pub(super) fn invalid(why: String) -> Response {
    Response::problem(400, &why)
}

/// Returns the view that the request names; defaults to the output.
pub(super) fn view(request: &Request) -> Result<LineView, Response> {
    Ok(match request.parameter("view") {
        None | Some("output") => LineView::Output,
        Some("logs") => LineView::Logs,
        Some("events") => LineView::Events,
        Some(other) => {
            let why = format!("no view is called {other:?}; there are output, logs, events");
            return Err(invalid(why));
        }
    })
}

/// Returns the value of a parameter that is a number.
pub(super) fn number(request: &Request, name: &str) -> Result<Option<u64>, Response> {
    let text = request.parameter(name);
    text.map(|text| parsed(name, text)).transpose()
}

pub(super) fn parsed(name: &str, text: &str) -> Result<u64, Response> {
    let number = text.parse();
    number.map_err(|_| invalid(format!("{name}: {text:?} is no number")))
}
