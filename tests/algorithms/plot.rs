//! A picture of requests in time, one panel an algorithm: SVG by hand, since all of it is lines and words.

use std::fmt::Write as _;

/// One algorithm's row.
pub struct Panel {
    /// Its name.
    pub name: &'static str,
    /// What is said of it in numbers.
    pub note: String,
    /// When each request came, in ms, and whether it passed.
    pub requests: Vec<(u64, bool)>,
}

const WIDTH: u64 = 900;
const LEFT: u64 = 24;
const PANEL: u64 = 76;
const TOP: u64 = 28;

/// The whole picture. Times are in ms; `edge_ms` is how often a window begins.
pub fn svg(panels: &[Panel], from_ms: u64, to_ms: u64, edge_ms: u64) -> String {
    let height = TOP + PANEL * panels.len() as u64 + 34;
    let x =
        |at: u64| LEFT as f64 + (at - from_ms) as f64 * (WIDTH - 2 * LEFT) as f64 / (to_ms - from_ms) as f64;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <title>What passes of 4 requests a second at 60 a minute, by algorithm</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for edge in (0..=to_ms).step_by(edge_ms as usize).filter(|edge| *edge >= from_ms) {
        let (at, bottom) = (x(edge), height - 26);
        let _ = writeln!(
            out,
            "<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#8a94a6\" stroke-dasharray=\"4 4\"/>\n\
             <text x=\"{at:.1}\" y=\"{}\" fill=\"#5b6475\" text-anchor=\"middle\">{} s</text>",
            height - 10,
            edge / 1000
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"18\" fill=\"#1d2433\">4 requests a second from {} s on; 60 a minute allowed. \
         <tspan fill=\"#1a7f4b\">Tall: passed.</tspan> <tspan fill=\"#b3261e\">Short: refused.</tspan> \
         <tspan fill=\"#5b6475\">Dashed: windows of the clock.</tspan></text>",
        from_ms / 1000
    );
    for (index, panel) in panels.iter().enumerate() {
        let base = TOP + PANEL * (index as u64 + 1) - 6;
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\" fill=\"#1d2433\" font-weight=\"600\">{} \
             <tspan fill=\"#5b6475\" font-weight=\"400\">{}</tspan></text>",
            base - 42,
            panel.name,
            panel.note
        );
        for (wanted, colour, tall) in [(true, "#1a7f4b", 34), (false, "#b3261e", 8)] {
            let mut path = String::new();
            for (at, _) in panel.requests.iter().filter(|(_, passed)| *passed == wanted) {
                let _ = write!(path, "M{:.1} {base}v-{tall}", x(*at));
            }
            let _ = writeln!(out, "<path d=\"{path}\" stroke=\"{colour}\"/>");
        }
    }
    out.push_str("</svg>\n");
    out
}
