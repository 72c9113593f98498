package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Rest speaks to the REST interface of a worker.
type Rest struct {
	URL string
}

// requestLimit bounds one request: a worker may forward it to the leader, and answers 409 or 500 after 90 s at the latest.
const requestLimit = 20 * time.Second

// bodyLimit bounds what is read of an answer.
const bodyLimit = 1 << 20

// StatusError is an answer that is not a success.
type StatusError struct {
	Code int
	Body string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.Code, e.Body) }

// call sends a request with a JSON body, or none, and decodes the answer into out unless it is nil.
func (r Rest) call(ctx context.Context, method, path string, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, bodyLimit))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, path, &StatusError{res.StatusCode, string(b)})
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(b, out)
}

func connector(name string) string { return "/connectors/" + url.PathEscape(name) }

// Put creates a connector, or changes its configuration.
func (r Rest) Put(ctx context.Context, name string, config map[string]string) error {
	return r.call(ctx, http.MethodPut, connector(name)+"/config", config, nil)
}

// Delete removes a connector; what the cluster knows of its offsets stays.
func (r Rest) Delete(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodDelete, connector(name), nil, nil)
}

// Pause and Resume stop and continue a connector's tasks, which stay where they are; Stop ends the tasks.
func (r Rest) Pause(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodPut, connector(name)+"/pause", nil, nil)
}

// Resume continues a paused or stopped connector.
func (r Rest) Resume(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodPut, connector(name)+"/resume", nil, nil)
}

// Stop ends a connector's tasks and keeps the connector.
func (r Rest) Stop(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodPut, connector(name)+"/stop", nil, nil)
}

// Restart restarts a connector with its tasks.
func (r Rest) Restart(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodPost, connector(name)+"/restart?includeTasks=true&onlyFailed=false", nil, nil)
}

// ResetOffsets forgets what a stopped connector has read.
func (r Rest) ResetOffsets(ctx context.Context, name string) error {
	return r.call(ctx, http.MethodDelete, connector(name)+"/offsets", nil, nil)
}

// state is a connector's or a task's.
type state struct {
	State  string `json:"state"`
	Worker string `json:"worker_id"`
	Trace  string `json:"trace"`
}

// Status is a connector and its tasks.
type Status struct {
	Connector state   `json:"connector"`
	Tasks     []state `json:"tasks"`
}

// Status asks for a connector's status.
func (r Rest) Status(ctx context.Context, name string) (Status, error) {
	var s Status
	err := r.call(ctx, http.MethodGet, connector(name)+"/status", nil, &s)
	return s, err
}

// Offsets are how far a file source has read, in bytes of its file, and a sink in records of its topic; 0 if nothing is committed. Both
// have one partition.
func (r Rest) Offsets(ctx context.Context, name string) (int64, error) {
	var answer struct {
		Offsets []struct {
			Offset struct {
				Position int64 `json:"position"`
				Kafka    int64 `json:"kafka_offset"`
			} `json:"offset"`
		} `json:"offsets"`
	}
	if err := r.call(ctx, http.MethodGet, connector(name)+"/offsets", nil, &answer); err != nil {
		return 0, err
	}
	switch len(answer.Offsets) {
	case 0:
		return 0, nil
	case 1:
		return max(answer.Offsets[0].Offset.Position, answer.Offsets[0].Offset.Kafka), nil
	default:
		return 0, fmt.Errorf("%s has offsets of %d partitions, want 1", name, len(answer.Offsets))
	}
}
