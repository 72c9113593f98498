package ids_test

import (
	"errors"
	"testing"

	"github.com/felixlog/felix/internal/ids"
)

func TestTopicIDText(t *testing.T) {
	id := ids.TopicID{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10}
	const text = "01234567-89ab-cdef-fedc-ba9876543210"
	if got := id.String(); got != text {
		t.Errorf("String() = %q, want %q", got, text)
	}
	back, err := ids.ParseTopicID(text)
	if err != nil || back != id {
		t.Errorf("ParseTopicID(%q) = %v, %v, want %v", text, back, err, id)
	}
	if got, want := (ids.ShardID{Topic: id, Partition: 7}).String(), text+"/7"; got != want {
		t.Errorf("ShardID.String() = %q, want %q", got, want)
	}
}

func TestParseTopicIDRefuses(t *testing.T) {
	for _, text := range []string{"", "01234567", "01234567-89ab-cdef-fedc-ba987654321", "0123456789ab-cdef-fedc-ba9876543210--", "zz234567-89ab-cdef-fedc-ba9876543210"} {
		if _, err := ids.ParseTopicID(text); !errors.Is(err, ids.ErrBadTopicID) {
			t.Errorf("ParseTopicID(%q) = %v, want ErrBadTopicID", text, err)
		}
	}
}

func TestNewTopicID(t *testing.T) {
	seen := map[ids.TopicID]bool{}
	for range 10_000 {
		id := ids.NewTopicID()
		if text := id.Base64(); text[0] == '-' || id.String()[14] != '4' || seen[id] {
			t.Fatalf("drew %v, %s", id, text)
		}
		seen[id] = true
	}
}
