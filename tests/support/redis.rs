//! A Redis of a test's own, and the little of its protocol that tests speak.
//!
//! The server listens on a Unix socket in a directory of its own: no port that another test could take. It persists
//! nothing and ends when it is dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

/// The first of these that is installed is the one tested against.
const BINARIES: [&str; 2] = ["redis-server", "valkey-server"];
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
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("sluicegate-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = env::temp_dir().join(own);
        fs::create_dir_all(&directory).expect("a temporary directory");
        let child = BINARIES.iter().find_map(|binary| launch(binary, &directory)).unwrap_or_else(|| {
            panic!(
                "no Redis: neither {} is on PATH (Debian: apt-get install redis-server)",
                BINARIES.join(" nor ")
            )
        });
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
            owed: 0,
        })
    }

    fn socket(&self) -> PathBuf {
        self.directory.join("redis.sock")
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

fn launch(binary: &str, directory: &Path) -> Option<Child> {
    Command::new(binary)
        .args(["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
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
    owed: usize,
}

impl Client {
    /// Queues a command.
    pub fn queue<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        self.pending.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for part in command {
            let part = part.as_ref();
            self.pending.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            self.pending.extend_from_slice(part);
            self.pending.extend_from_slice(b"\r\n");
        }
        self.owed += 1;
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
        (0..std::mem::take(&mut self.owed)).map(|_| self.read()).collect()
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
