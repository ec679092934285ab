package transport

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// CloudEvents 1.0 come in three forms: with their attributes in headers, as one JSON
// object, and as an array of those. An event's data is what is taken, as it was sent. Of
// its attributes only source and id are kept, as its id; the others are checked, and then
// they are the sender's business.

const (
	cloudVersion = "1.0"
	// maxCloudIDBytes bounds source and id together, so that what tells them apart fits
	// beside them.
	maxCloudIDBytes = flow.MaxEventIDBytes - len("c512:")
	// maxAttributes bounds the attributes of one event, each of which is compared with
	// those before it.
	maxAttributes = 100
)

var wantCloudID = fmt.Sprintf("must be at most %d bytes together with source", maxCloudIDBytes)

// cloudHeaders are the headers that make a request a CloudEvent. One without the others is
// refused: an event with half an identity would be taken twice.
var cloudHeaders = [...]string{"Ce-Specversion", "Ce-Id", "Ce-Source", "Ce-Type"}

func (x *exchange) hasCloudHeader() bool {
	for _, name := range cloudHeaders {
		if len(x.r.Header[name]) > 0 {
			return true
		}
	}
	return false
}

// cloudID is the identity of the event that the headers describe.
func (x *exchange) cloudID() (string, error) {
	var texts [len(cloudHeaders)]string
	for i, name := range cloudHeaders {
		text, err := x.cloudHeader(name)
		if err != nil {
			return "", err
		}
		texts[i] = text
	}
	switch {
	case texts[0] != cloudVersion:
		return "", flow.Invalid("ce-specversion", "must be "+cloudVersion)
	case len(x.r.Header["Ce-Datacontenttype"]) > 0:
		return "", flow.Invalid("ce-datacontenttype", "must be left out: the Content-Type is that of the data")
	case len(texts[1])+len(texts[2]) > maxCloudIDBytes:
		return "", flow.Invalid("ce-id", wantCloudID)
	}
	return cloudID(texts[2], texts[1]), nil
}

// cloudHeader is an attribute that is required. name is the header's canonical form.
func (x *exchange) cloudHeader(name string) (string, error) {
	field := strings.ToLower(name)
	sent := x.r.Header[name]
	switch len(sent) {
	case 0:
		return "", flow.Invalid(field, "is required: a CloudEvent has ce-specversion, ce-id, ce-source and ce-type")
	case 1:
	default:
		return "", flow.Invalid(field, "must not stand twice")
	}
	text, ok := unquoted(strings.Trim(sent[0], " \t"))
	if ok {
		text, ok = percentDecoded(text)
	}
	switch {
	case !ok:
		return "", flow.Invalid(field, `must be UTF-8 with percent-encoding, where "%" itself is %25`)
	case text == "":
		return "", flow.Invalid(field, "must not be empty")
	}
	return text, nil
}

// cloudID is the id of the event: no other pair of source and id has the same.
func cloudID[T string | []byte](source, id T) string {
	text := make([]byte, 0, flow.MaxEventIDBytes)
	text = strconv.AppendInt(append(text, idOfCloud), int64(len(source)), 10)
	text = append(append(text, ':'), source...)
	return string(append(text, id...))
}

// listOfEvents is what errors call the array, which has no name where it stands.
var listOfEvents = place{name: []byte("events"), index: -1}

// cloudEvents reads the batch form.
func (r *reader) cloudEvents(body []byte) ([]wire.TriggerEvent, error) {
	r.reset(body)
	if r.peek() != '[' {
		r.mismatch("must be a JSON array of CloudEvents")
		return nil, r.end()
	}
	r.path = append(r.path, listOfEvents)
	var events []wire.TriggerEvent
	for l := r.listUpTo(wire.MaxEvents); r.element(&l); {
		events = append(events, r.cloudEvent())
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	for i := range events {
		if err := events[i].Check(); err != nil {
			return nil, misplaced(err, "events["+strconv.Itoa(i)+"].data")
		}
	}
	return events, nil
}

// cloudEvent reads one event in the JSON format.
func (r *reader) cloudEvent() (e wire.TriggerEvent) {
	var id, source []byte
	m := r.object("specversion", "id", "source", "type", "data")
	for r.member(&m) {
		if len(r.names)-m.base > maxAttributes {
			r.wrong(fmt.Sprintf("is one attribute too many: an event has at most %d", maxAttributes))
			break
		}
		switch r.name() {
		case "specversion":
			if v := r.attribute(); v != nil && string(v) != cloudVersion {
				r.wrong(`must be "` + cloudVersion + `"`)
			}
		case "id":
			id = r.attribute()
		case "source":
			source = r.attribute()
		case "type", "subject", "time", "dataschema":
			r.attribute()
		case "datacontenttype":
			if v := r.attribute(); v != nil && string(v) != wire.ContentJSON && !isJSON(string(v)) {
				r.wrong("must be a JSON type, application/json or one that ends in +json")
			}
		case "data":
			if !r.null() {
				e.Body = r.event()
			}
		case "data_base64":
			if !r.null() {
				r.wrong("must be left out: the data of an event is a JSON object in data")
			}
		default:
			r.extension()
		}
	}
	if len(source)+len(id) > maxCloudIDBytes {
		r.path = append(r.path, place{name: []byte("id"), index: -1})
		r.wrong(wantCloudID)
	}
	if r.err == nil {
		e.ID = cloudID(source, id)
	}
	return e
}

// attribute reads a text, nil for null, as a part of the document.
func (r *reader) attribute() []byte {
	if r.null() {
		return nil
	}
	if r.peek() != '"' {
		r.mismatch("must be a string")
		return nil
	}
	text := r.text()
	if len(text) == 0 {
		r.wrong("must not be empty")
	}
	return text
}

// extension reads over an attribute that CloudEvents doesn't name.
func (r *reader) extension() {
	name := r.path[len(r.path)-1].name
	odd := func(c byte) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	if len(name) == 0 || slices.ContainsFunc(name, odd) {
		r.wrongName("is no attribute of a CloudEvent: their names are lower-case letters and digits")
	}
	r.skip(0)
}

// isJSON says whether a media type is one of JSON, whatever its parameters.
func isJSON(mediaType string) bool {
	mediaType, _, _ = strings.Cut(mediaType, ";")
	main, sub, ok := strings.Cut(strings.ToLower(strings.TrimSpace(mediaType)), "/")
	return ok && main != "" && (sub == "json" || strings.HasSuffix(sub, "+json"))
}
