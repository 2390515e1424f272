//! What programs read over TCP: the API as at the observer's socket.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tungstenite::{Message, client::IntoClientRequest};

use super::Served;
use crate::observer::Home;
use crate::support::{CEILING, wait_for, within};

#[test]
fn curl_and_a_websocket_read_the_streams_and_resume() {
    for has_observer in [true, false] {
        let home = Home::new();
        home.server.new_session("web", 80, 24, "exec cat");
        if has_observer {
            home.start();
        }
        let served = Served::start(&home, &[]);
        let bearer = format!("Authorization: Bearer {}", served.token);
        let url = format!("http://{}/api/v1/events", served.address);
        let mut curl = Command::new("curl")
            .args(["-sN", "--max-time", "60", "-H", &bearer, &url])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = curl.stdout.take().unwrap();
        let mut read = String::new();
        let mut until = |text: &str| {
            let mut bytes = [0; 4096];
            while !read.contains(text) {
                let count = output.read(&mut bytes).unwrap();
                assert!(count > 0, "{text}: {read}");
                read.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        };
        until("StreamOpened");
        let mut request = format!("ws://{}/api/v1/ws", served.address)
            .into_client_request()
            .unwrap();
        let headers = request.headers_mut();
        headers.insert(
            "Authorization",
            bearer.split_once(": ").unwrap().1.parse().unwrap(),
        );
        let (mut socket, _) = tungstenite::client(request, served.connect()).unwrap();
        let mut next = || loop {
            if let Message::Text(text) = socket.read().unwrap() {
                return serde_json::from_str::<Value>(&text).unwrap();
            }
        };
        assert_eq!(next()["event"]["type"], "StreamOpened");
        home.server
            .tmux(&["send-keys", "-t", "web", "one line", "Enter"]);
        until("one line");
        while !next()["event"]["chunk"]
            .as_str()
            .is_some_and(|chunk| chunk.contains("one line"))
        {}
        let change = json!({"subscribe": {"types": ["Warning"]}}).to_string();
        socket.send(Message::text(change)).unwrap();
        curl.kill().unwrap();
        curl.wait().unwrap();

        // The position of a stream is resumed by another one.
        let cursor = read
            .lines()
            .filter_map(|line| line.strip_prefix("id: "))
            .next_back()
            .unwrap();
        home.server
            .tmux(&["send-keys", "-t", "web", "two lines", "Enter"]);
        let mut stream = served.connect();
        let head = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n{bearer}\r\nLast-Event-ID: {cursor}\r\n\r\n",
            served.address
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut resumed = String::new();
        let read = within(CEILING, || {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap();
            resumed.push_str(&String::from_utf8_lossy(&bytes[..count]));
            if resumed.contains("two lines") {
                Ok(())
            } else {
                Err(resumed.clone())
            }
        });
        read.unwrap();
    }
}

#[test]
fn an_observer_that_comes_and_goes_is_found_again() {
    let home = Home::new();
    home.server.new_session("web", 80, 24, "exec cat");
    home.start();
    let served = Served::start(&home, &[]);
    let status = |served: &Served| served.ask("GET /api/v1/board", "").status;
    assert_eq!(status(&served), 200);
    assert_eq!(home.run(&["stop"]).status.code(), Some(0));
    let gone = served.ask("GET /api/v1/board", "");
    assert_eq!(gone.status, 503, "{gone:?}");
    assert!(
        gone.json()["detail"]
            .as_str()
            .unwrap()
            .contains("td-observe start"),
        "{gone:?}"
    );
    home.start();
    wait_for("the next observer", CEILING, || match status(&served) {
        200 => Ok(()),
        other => Err(other),
    });
}
