package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// What the extra data of a receipt hold, as they stand there: the record's own text is what its leaf
// commits to.
type opening struct {
	BucketTenant *string         `json:"b"`
	Evidence     json.RawMessage `json:"evidence"`
	Record       json.RawMessage `json:"record"`
	Salt         string          `json:"salt"`
	Tenant       string          `json:"t"`
}

// C2SP tlog-proof@v1.
type receipt struct {
	opening    opening
	index      int64
	hashes     [][]byte
	checkpoint string
}

func checkReceipt(text string, verifiers []note.Verifier) (outcome, error) {
	parsed, err := parseReceipt(text)
	if err != nil {
		return outcome{}, err
	}
	signed, err := openCheckpoint([]byte(parsed.checkpoint), verifiers)
	if err != nil {
		return outcome{}, err
	}
	leaf, err := parsed.opening.leaf()
	if err != nil {
		return outcome{}, err
	}
	tree := signed.tree
	if parsed.index >= tree.N {
		return outcome{}, fmt.Errorf("index %d of a tree of %d", parsed.index, tree.N)
	}
	leafHash := rfc6962.DefaultHasher.HashLeaf(leaf)
	index, size := uint64(parsed.index), uint64(tree.N)
	err = proof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leafHash, parsed.hashes, tree.Hash[:])
	if err != nil {
		return outcome{}, fmt.Errorf("merkle: %w", err)
	}
	var path tlog.RecordProof
	for _, hash := range parsed.hashes {
		path = append(path, tlog.Hash(hash))
	}
	err = tlog.CheckRecord(path, tree.N, tree.Hash, parsed.index, tlog.RecordHash(leaf))
	if err != nil {
		return outcome{}, fmt.Errorf("sumdb: %w", err)
	}
	var record struct {
		Index *int64 `json:"index"`
	}
	if err := json.Unmarshal(parsed.opening.Record, &record); err != nil {
		return outcome{}, err
	}
	if record.Index == nil || *record.Index != parsed.index {
		return outcome{}, errors.New("the record has another index than its receipt")
	}
	return outcome{Origin: signed.origin, Size: tree.N, Index: parsed.index}, nil
}

func parseReceipt(text string) (*receipt, error) {
	top, checkpoint, found := strings.Cut(text, "\n\n")
	lines := strings.Split(top, "\n")
	if !found || len(lines) < 3 || lines[0] != "c2sp.org/tlog-proof@v1" {
		return nil, errors.New("this is no proof")
	}
	encoded, found := strings.CutPrefix(lines[1], "extra ")
	if !found {
		return nil, errors.New("the proof has no extra data")
	}
	extra, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	parsed := &receipt{checkpoint: checkpoint}
	decoder := json.NewDecoder(bytes.NewReader(extra))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed.opening); err != nil {
		return nil, err
	}
	digits, found := strings.CutPrefix(lines[2], "index ")
	if parsed.index, err = strconv.ParseInt(digits, 10, 64); err != nil || !found || parsed.index < 0 {
		return nil, fmt.Errorf("%q is no index", lines[2])
	}
	for _, line := range lines[3:] {
		hash, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(hash) != tlog.HashSize {
			return nil, fmt.Errorf("%q is no hash", line)
		}
		parsed.hashes = append(parsed.hashes, hash)
	}
	return parsed, nil
}

func (o opening) leaf() ([]byte, error) {
	salt, err := base64.RawURLEncoding.Strict().DecodeString(o.Salt)
	if err != nil {
		return nil, err
	}
	commitment := sha256.Sum256(append(salt, o.Record...))
	about := ""
	if o.BucketTenant != nil {
		about = fmt.Sprintf(`"b":%q,`, *o.BucketTenant)
	}
	c := base64.RawURLEncoding.EncodeToString(commitment[:])
	return fmt.Appendf(nil, `{"v":1,"t":%q,%s"c":"%s"}`, o.Tenant, about, c), nil
}
