//! A Redis of a test's own, and the little of its protocol that tests speak.
//!
//! The server listens on a Unix socket in a directory of its own: no port that another test could take. It persists
//! nothing and ends when it is dropped. `SLUICEGATE_REDIS` names the server's binary, where it is not to be the first
//! that is installed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// The first of these that is installed is the one tested against, unless another is named.
const BINARIES: [&str; 2] = ["redis-server", "valkey-server"];
/// Its socket, in a directory of its own.
const SOCKET: &str = "redis.sock";
/// Longest that a server may take to answer; a machine can be busy.
const START: Duration = Duration::from_secs(20);
/// A reply that takes longer means that a test hangs.
const REPLY: Duration = Duration::from_secs(30);

/// A running server.
pub struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// Starts one and waits until it answers.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more of the server's own options.
    pub fn start_with(options: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("sluicegate-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = env::temp_dir().join(own);
        fs::create_dir_all(&directory).expect("a temporary directory");
        let socket = directory.join(SOCKET);
        let [place, socket] = [&directory, &socket].map(|path| path.to_str().expect("a path in UTF-8"));
        let own = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", place];
        let child = launch(&[&own, options].concat());
        let server = Self { child, directory };
        let deadline = Instant::now() + START;
        while server.open().and_then(|mut client| client.try_call(&["PING"])).is_err() {
            assert!(Instant::now() < deadline, "Redis does not answer on {}", server.socket().display());
            thread::sleep(Duration::from_millis(5));
        }
        server
    }

    /// A connection.
    pub fn client(&self) -> Client {
        self.open().expect("a connection to Redis")
    }

    fn open(&self) -> io::Result<Client> {
        let stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(REPLY))?;
        Ok(Client {
            reader: BufReader::new(stream.try_clone()?),
            writer: stream,
            pending: Vec::new(),
            owed: Vec::new(),
            besides: None,
        })
    }

    fn socket(&self) -> PathBuf {
        self.directory.join(SOCKET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left to be done about a server that is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn launch(options: &[&str]) -> Child {
    let named = env::var("SLUICEGATE_REDIS").ok().filter(|name| !name.is_empty());
    let start = |binary: &str| {
        let mut command = Command::new(binary);
        command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    match named {
        Some(name) => start(&name).unwrap_or_else(|error| panic!("SLUICEGATE_REDIS={name}: {error}")),
        None => BINARIES.into_iter().find_map(|binary| start(binary).ok()).unwrap_or_else(|| {
            panic!(
                "no Redis: neither {} is on PATH (Debian: apt-get install redis-server)",
                BINARIES.join(" nor ")
            )
        }),
    }
}

/// One reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// An integer.
    Int(i64),
    /// A string; `None` is nil.
    Bulk(Option<Vec<u8>>),
    /// A list.
    Array(Vec<Reply>),
    /// `OK` and its like.
    Status(String),
    /// An error.
    Error(String),
}

impl Reply {
    /// The integer that it must be.
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    /// The list that it must be.
    pub fn array(&self) -> &[Reply] {
        match self {
            Self::Array(replies) => replies,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// The string, or nil, that it must be.
    pub fn bulk(&self) -> Option<&[u8]> {
        match self {
            Self::Bulk(bytes) => bytes.as_deref(),
            other => panic!("not a string: {other:?}"),
        }
    }

    /// The text that it must be.
    pub fn text(&self) -> &str {
        std::str::from_utf8(self.bulk().expect("not nil")).expect("UTF-8")
    }

    /// Milliseconds since the Unix epoch, of a reply to `TIME`.
    pub fn time_ms(&self) -> u64 {
        let parts: Vec<u64> =
            self.array().iter().map(|part| part.text().parse().expect("a number")).collect();
        parts[0] * 1000 + parts[1] / 1000
    }
}

/// A connection; commands are queued and sent together.
pub struct Client {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    pending: Vec<u8>,
    /// For each reply to come, whether it was asked for.
    owed: Vec<bool>,
    /// Of one whose scripts are confined: what they may touch besides.
    besides: Option<&'static [&'static str]>,
}

impl Client {
    /// The same, whose scripts may touch the keys that they name in KEYS, these besides, and no other: what Upstash holds
    /// a script to that opens with `allow-key-locking`. Nobody else may use the server meanwhile.
    pub fn confined(self, besides: &'static [&'static str]) -> Self {
        Self { besides: Some(besides), ..self }
    }

    /// Queues a command.
    pub fn queue<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        let command: Vec<&[u8]> = command.iter().map(AsRef::as_ref).collect();
        match self.besides.filter(|_| command[0].starts_with(b"EVAL")) {
            None => self.push(&command, true),
            Some(besides) => {
                let count: usize = String::from_utf8_lossy(command[2]).parse().expect("a number of keys");
                let may =
                    command[3..3 + count].iter().copied().chain(besides.iter().map(|key| key.as_bytes()));
                let may: Vec<Vec<u8>> = may.map(|key| [b"~", key].concat()).collect();
                let rights = ["ACL", "SETUSER", "default", "resetkeys"].map(str::as_bytes);
                self.push(
                    &rights.into_iter().chain(may.iter().map(Vec::as_slice)).collect::<Vec<_>>(),
                    false,
                );
                self.push(&command, true);
                self.push(&["ACL", "SETUSER", "default", "allkeys"].map(str::as_bytes), false);
            }
        }
    }

    fn push(&mut self, command: &[&[u8]], wanted: bool) {
        self.pending.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for part in command {
            self.pending.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            self.pending.extend_from_slice(part);
            self.pending.extend_from_slice(b"\r\n");
        }
        self.owed.push(wanted);
    }

    /// Sends what is queued; the replies in order.
    pub fn flush(&mut self) -> Vec<Reply> {
        self.try_flush().expect("a reply from Redis")
    }

    /// One command, its reply, which is no error.
    pub fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        match self.try_call(command).expect("a reply from Redis") {
            Reply::Error(text) => panic!("{text}"),
            reply => reply,
        }
    }

    /// The same, an error of Redis's own being an answer.
    ///
    /// # Errors
    /// The connection's.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        self.queue(command);
        self.try_flush()?.pop().ok_or_else(|| io::Error::other("no reply"))
    }

    fn try_flush(&mut self) -> io::Result<Vec<Reply>> {
        let sent = std::mem::take(&mut self.pending);
        self.writer.write_all(&sent)?;
        let mut replies = Vec::new();
        for wanted in std::mem::take(&mut self.owed) {
            match self.read()? {
                reply if wanted => replies.push(reply),
                Reply::Error(text) => return Err(io::Error::other(text)),
                _ => {}
            }
        }
        Ok(replies)
    }

    fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let (kind, rest) =
            line.trim_end().split_at_checked(1).ok_or_else(|| io::Error::other("cut short"))?;
        let number = || rest.parse::<i64>().map_err(|_| io::Error::other(format!("not a number: {rest}")));
        Ok(match kind {
            ":" => Reply::Int(number()?),
            "+" => Reply::Status(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            "*" => Reply::Array((0..number()?).map(|_| self.read()).collect::<io::Result<_>>()?),
            "$" => match usize::try_from(number()?) {
                Err(_) => Reply::Bulk(None),
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Reply::Bulk(Some(bytes))
                }
            },
            _ => return Err(io::Error::other(format!("not RESP: {line:?}"))),
        })
    }
}
