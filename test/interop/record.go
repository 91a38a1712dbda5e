package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/gowebpki/jcs"
)

// As many levels as an opening may have.
const depthMax = 64

// Whole numbers beyond it are not the same to all readers of JSON.
const safeIntegerMax = 1<<53 - 1

var pseudonymForm = regexp.MustCompile(`^[A-Za-z0-9_-]{21}[AQgw]$`)

var leafForm = regexp.MustCompile(
	`^\{"v":1,"t":"[A-Za-z0-9_-]{21}[AQgw]",("b":"[A-Za-z0-9_-]{21}[AQgw]",)?` +
		`"c":"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]"\}$`)

// What the extra data of a receipt hold. The record is as it stands there, which is canonical.
type opening struct {
	bucketTenant string
	record       []byte
	salt         []byte
	tenant       string
}

func parseOpening(extra []byte) (*opening, error) {
	if err := checkCanonical(extra); err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(extra, &members); err != nil {
		return nil, err
	}
	found := &opening{record: members["record"]}
	var salt string
	texts := map[string]*string{"b": &found.bucketTenant, "salt": &salt, "t": &found.tenant}
	for name, raw := range members {
		if text, known := texts[name]; known {
			if raw[0] != '"' || json.Unmarshal(raw, text) != nil {
				return nil, fmt.Errorf("%q is no text", name)
			}
			if name != "salt" && !pseudonymForm.MatchString(*text) {
				return nil, fmt.Errorf("%q is no pseudonym", *text)
			}
		} else if name != "record" && name != "evidence" {
			return nil, fmt.Errorf("what is %q?", name)
		}
	}
	var err error
	if found.salt, err = base64.RawURLEncoding.Strict().DecodeString(salt); err != nil {
		return nil, err
	}
	if len(found.salt) != 16 || base64.RawURLEncoding.EncodeToString(found.salt) != salt {
		return nil, errors.New("the salt has another length")
	}
	return found, found.checkRecord(members["evidence"])
}

// The leaf that the opening is of.
func (o opening) leaf() ([]byte, error) {
	commitment := sha256.Sum256(append(o.salt, o.record...))
	about := ""
	if o.bucketTenant != "" {
		about = fmt.Sprintf(`"b":"%s",`, o.bucketTenant)
	}
	c := base64.RawURLEncoding.EncodeToString(commitment[:])
	leaf := fmt.Appendf(nil, `{"v":1,"t":"%s",%s"c":"%s"}`, o.tenant, about, c)
	if !leafForm.Match(leaf) {
		return nil, errors.New("it opens no leaf")
	}
	return leaf, nil
}

// Where the record says that it is in the log.
func (o opening) index() (int64, error) {
	var record map[string]json.RawMessage
	if err := json.Unmarshal(o.record, &record); err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(record["index"]), 10, 64)
}

// A record has what is said of all of them, its place in the log tells of the same tenants, and it
// names the evidence that is with it. What the client signed there is not verified here.
func (o opening) checkRecord(evidence json.RawMessage) error {
	var record map[string]json.RawMessage
	if err := json.Unmarshal(o.record, &record); err != nil || record == nil {
		return errors.New("there is no record")
	}
	for _, name := range []string{"tenant", "principal", "action", "time", "evidence"} {
		if record[name] == nil {
			return fmt.Errorf("the record has no %q", name)
		}
	}
	begins := map[string]string{
		"tenant": `"`, "principal": `"`, "action": `"`, "time": `"`, "evidence": `"`, "key": `"`,
		"bucket": `"`, "bucketTenant": `"`, "target": `"`, "error": `"`, "tokens": "[",
		"index": "-0123456789", "status": "-0123456789",
	}
	for name, first := range begins {
		if raw, has := record[name]; has && !bytes.ContainsAny(raw[:1], first) {
			return fmt.Errorf("the record's %q is of another kind", name)
		}
	}
	if record["index"] == nil || record["status"] == nil {
		return errors.New("the record has no index or no status")
	}
	if (record["bucketTenant"] != nil) != (o.bucketTenant != "") {
		return errors.New("leaf and record differ about whose bucket it is")
	}
	if evidence == nil {
		return nil
	}
	var named string
	hash := sha256.Sum256(evidence)
	if evidence[0] != '{' || json.Unmarshal(record["evidenceHash"], &named) != nil ||
		named != base64.RawURLEncoding.EncodeToString(hash[:]) {
		return errors.New("the evidence is not that of the record")
	}
	return nil
}

// RFC 8785, with whole numbers only.
func checkCanonical(text []byte) error {
	canonical, err := jcs.Transform(text)
	if err != nil {
		return err
	}
	if !bytes.Equal(canonical, text) {
		return errors.New("the JSON is not canonical")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	for depth := 0; decoder.More() || depth > 0; {
		token, err := decoder.Token()
		if err != nil {
			return err
		}
		switch value := token.(type) {
		case json.Delim:
			if value == '{' || value == '[' {
				depth++
			} else {
				depth--
			}
			if depth > depthMax {
				return errors.New("the JSON is nested too deeply")
			}
		case json.Number:
			number, err := strconv.ParseInt(value.String(), 10, 64)
			if err != nil || number > safeIntegerMax || number < -safeIntegerMax {
				return fmt.Errorf("%s is no whole number below 2^53", value)
			}
		}
	}
	return nil
}
