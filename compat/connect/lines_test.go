package connect

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	// Every case starts with a settled moment at which lines 0 and 1 were written and were there.
	for _, tt := range []struct {
		name  string
		lines []int64
		extra string // further bytes of the file
		exact bool
		want  string // part of the first problem; "" for none
	}{
		{"in order", []int64{2, 3}, "", true, ""},
		{"again after a kill", []int64{0, 1, 2, 2, 3}, "", false, ""},
		{"again without a kill", []int64{2, 2, 3}, "", true, "1 lines came again"},
		{"missing in the middle", []int64{3}, "", false, "line 3 follows on 1"},
		{"missing at first", []int64{3, 2}, "", false, "line 3 follows on 1"},
		{"missing at the end", []int64{2}, "", false, "3 lines are there, 4 were written"},
		{"unfinished", []int64{2, 3}, "p 4", true, ""},
		{"torn", []int64{2, 3}, "p 3 -\n", true, "is no line that was written"},
		{"of another pipe", []int64{2, 3}, "q 4 \n", true, "is no line that was written"},
		{"negative", []int64{2, 3}, "p -7 \n", true, "is no line that was written"},
		{"empty", []int64{2, 3}, "\n", true, "is no line that was written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tally := &tally{pipe: "p"}
			tally.addAll([]byte(line("p", 0) + "\n" + line("p", 1) + "\n"))
			if got := tally.judge(2, true); len(got) != 0 {
				t.Fatalf("problems %q at the beginning", got)
			}
			var file strings.Builder
			for _, n := range tt.lines {
				file.WriteString(line("p", n) + "\n")
			}
			file.WriteString(tt.extra)
			whole := strings.LastIndexByte(file.String(), '\n') + 1
			if got := tally.addAll([]byte(file.String())); got != whole {
				t.Errorf("took %d bytes, want %d", got, whole)
			}
			got := tally.judge(4, tt.exact)
			if tt.want == "" && len(got) != 0 || tt.want != "" && (len(got) == 0 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("problems %q, want %q", got, tt.want)
			}
		})
	}
}
