//! Which codes share a page: those that one looks at in the same way. Each has an anchor of its own
//! (`codes-slot.md#p010`). A code may not move: pages and pagers link to its anchor.

use outbox_router::codes::{Explanation, explanations};

/// Codes on one page.
pub(super) struct Family {
    name: &'static str,
    pub(super) title: &'static str,
    codes: &'static [&'static str],
}

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "postgresql",
        title: "Connecting to PostgreSQL",
        codes: &[
            "P001", "P002", "P003", "P004", "P005", "P006", "P007", "P008", "P009", "P033", "P034",
            "P071", "P040", "P084",
        ],
    },
    Family {
        name: "slot",
        title: "The slot and the server's history",
        codes: &["P010", "P011", "P012", "P013", "P014", "P015", "P070"],
    },
    Family {
        name: "publication",
        title: "The publication and the tables",
        codes: &[
            "P020", "P021", "P022", "P023", "P024", "P025", "P026", "P027", "P028", "P029", "P030",
            "P031", "P032", "P035",
        ],
    },
    Family {
        name: "kafka",
        title: "Kafka, the state topic and the cluster",
        codes: &["K001", "K002", "K014", "K017", "K020", "K021", "K022"],
    },
    Family {
        name: "topics",
        title: "Topics and refused records",
        codes: &["K010", "K011", "K012", "K013", "K015", "K016", "K019", "K023", "K024"],
    },
    Family {
        name: "rows",
        title: "Rows that cannot become records",
        codes: &[
            "R001", "R002", "R003", "R004", "R005", "R006", "R007", "R008", "R009", "R010", "R011",
            "R012", "R013", "R014", "R015", "R016",
        ],
    },
    Family {
        name: "dead-letters",
        title: "The tables of dead letters",
        codes: &["P036", "P037", "R017"],
    },
    Family { name: "polling", title: "Polled tables", codes: &["P041", "P042", "P043", "P060"] },
    Family { name: "upkeep", title: "Retention and recovery", codes: &["P038", "P039"] },
    Family { name: "configuration", title: "The configuration", codes: &["C"] },
    Family { name: "doctor", title: "What doctor advises", codes: &["D"] },
];

impl Family {
    pub(super) fn file(&self) -> String {
        format!("codes-{}.md", self.name)
    }

    /// Whether a code is on the page. A letter stands for all of its codes.
    pub(super) fn contains(&self, code: &str) -> bool {
        self.codes.iter().any(|known| code == *known || known.len() == 1 && code.starts_with(known))
    }

    /// Its codes, in the order of the tables.
    pub(super) fn explanations(&self) -> impl Iterator<Item = &'static Explanation> {
        explanations().filter(|explanation| self.contains(explanation.code))
    }
}
