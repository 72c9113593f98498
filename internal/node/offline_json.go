package node

import (
	"strings"
	"time"

	"github.com/felixlog/felix/log"
)

// The JSON forms of a report. They are written out here, so that a renamed field of package log does not change what programs read.
type (
	jsonReport struct {
		Verdict string        `json:"verdict"` // clean, would_repair, damaged, would_refuse
		Seconds float64       `json:"seconds"`
		Journal jsonJournal   `json:"journal"`
		Logs    []jsonLog     `json:"logs"`
		Totals  jsonLogTotals `json:"totals"`
	}
	jsonJournal struct {
		Verdict  string        `json:"verdict"`
		Findings []jsonFinding `json:"findings"`
	}
	jsonLog struct {
		TopicID       string        `json:"topic_id"`
		TopicIDBase64 string        `json:"topic_id_base64"` // as Kafka's tools print it
		Partition     int32         `json:"partition"`
		Dir           string        `json:"dir"`
		Verdict       string        `json:"verdict"`
		Start         int64         `json:"log_start_offset"`
		End           int64         `json:"log_end_offset"`
		Mark          int64         `json:"durable_mark"` // -1 when there is none
		Epoch         int32         `json:"leader_epoch"` // -1 when there is none
		Producers     int           `json:"producers"`
		Bytes         int64         `json:"bytes"`
		Checked       int64         `json:"checked_bytes"`
		Findings      []jsonFinding `json:"findings"`
		Segments      []jsonSegment `json:"segments"`
	}
	jsonFinding struct {
		Verdict  string `json:"verdict"`
		File     string `json:"file"`
		Position int64  `json:"position"`
		Reason   string `json:"reason"`
		Bytes    int64  `json:"bytes"`      // that would be cut or removed, or cannot be read
		Places   int    `json:"bad_places"` // 0 where they were not counted
	}
	jsonSegment struct {
		Base         int64 `json:"base_offset"`
		End          int64 `json:"end_offset"`
		Bytes        int64 `json:"bytes"`
		MaxTimestamp int64 `json:"max_timestamp_ms"`
		Sealed       bool  `json:"sealed"`
		Compacted    bool  `json:"compacted"`
	}
	jsonLogTotals struct {
		Logs    int   `json:"logs"`
		Bytes   int64 `json:"bytes"`
		Checked int64 `json:"checked_bytes"`
	}
)

func reportJSON(r *log.Report, took time.Duration) jsonReport {
	out := jsonReport{
		Verdict: verdictWord(r.Verdict()), Seconds: took.Seconds(),
		Journal: jsonJournal{Verdict: verdictWord(r.JournalVerdict), Findings: findingsJSON(r.Journal)},
		Logs:    make([]jsonLog, len(r.Shards)), Totals: jsonLogTotals{Logs: len(r.Shards)},
	}
	for i := range r.Shards {
		s := &r.Shards[i]
		out.Totals.Bytes += s.Bytes
		out.Totals.Checked += s.Scanned
		out.Logs[i] = jsonLog{
			TopicID: s.Shard.Topic.String(), TopicIDBase64: s.Shard.Topic.Base64(), Partition: s.Shard.Partition, Dir: s.Dir,
			Verdict: verdictWord(s.Verdict), Start: int64(s.Start), End: int64(s.End), Mark: int64(s.Mark), Epoch: int32(s.Epoch),
			Producers: s.Producers, Bytes: s.Bytes, Checked: s.Scanned,
			Findings: findingsJSON(s.Findings), Segments: make([]jsonSegment, len(s.Segments)),
		}
		for j, seg := range s.Segments {
			out.Logs[i].Segments[j] = jsonSegment{
				Base: int64(seg.Base), End: int64(seg.End), Bytes: seg.Bytes, MaxTimestamp: seg.MaxTimestamp, Sealed: seg.Sealed, Compacted: seg.Compacted,
			}
		}
	}
	return out
}

func findingsJSON(list []log.Finding) []jsonFinding {
	out := make([]jsonFinding, len(list))
	for i, f := range list {
		out[i] = jsonFinding{Verdict: verdictWord(f.Verdict), File: f.File, Position: f.Position, Reason: f.Reason, Bytes: f.Bytes, Places: f.Places}
	}
	return out
}

// verdictWord is a verdict as one word.
func verdictWord(v log.Verdict) string { return strings.ReplaceAll(v.String(), " ", "_") }
