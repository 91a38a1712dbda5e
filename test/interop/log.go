package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type log struct {
	verifiers []note.Verifier
	// What the log must begin with, or nil.
	old *head
}

// With fewer, tessera's workers can wait for each other.
const workers = 64

func checkLog(ctx context.Context, place string, known log) (outcome, error) {
	if !strings.HasPrefix(place, "http://") {
		server := httptest.NewServer(http.FileServer(http.Dir(place)))
		defer server.Close()
		place = server.URL
	}
	root, err := url.Parse(place + "/")
	if err != nil {
		return outcome{}, err
	}
	fetcher, err := client.NewHTTPFetcher(root, nil)
	if err != nil {
		return outcome{}, err
	}
	text, err := fetcher.ReadCheckpoint(ctx)
	if err != nil {
		return outcome{}, err
	}
	now, err := openCheckpoint(text, known.verifiers)
	if err != nil {
		return outcome{}, err
	}
	if err := checkTiles(tileReader(place), *now, known.old); err != nil {
		return outcome{}, fmt.Errorf("sumdb: %w", err)
	}
	signer, err := signerOf(text, known)
	if err != nil {
		return outcome{}, err
	}
	check := fsck.New(now.origin, signer, fetcher, hashEntries, fsck.Opts{N: workers})
	if err := check.Check(ctx); err != nil {
		return outcome{}, fmt.Errorf("fsck: %w", err)
	}
	return outcome{Origin: now.origin, Size: now.tree.N}, nil
}

// The key of those known that has signed; fsck takes one.
func signerOf(text []byte, known log) (note.Verifier, error) {
	for _, verifier := range known.verifiers {
		if _, err := note.Open(text, note.VerifierList(verifier)); err == nil {
			return verifier, nil
		}
	}
	return nil, errors.New("no single key has signed")
}

// The leaf hashes of an entry bundle, whose entries must be of records.
func hashEntries(bundle []byte) ([][]byte, error) {
	parsed := &api.EntryBundle{}
	if err := parsed.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	var hashes [][]byte
	for at, entry := range parsed.Entries {
		if !leafForm.Match(entry) {
			return nil, fmt.Errorf("entry %d of its bundle is not of a record", at)
		}
		hashes = append(hashes, rfc6962.DefaultHasher.HashLeaf(entry))
	}
	return hashes, nil
}

// Has the Go checksum database's own reader authenticate each leaf's hash by its tiles, and the old
// tree by a proof of consistency.
func checkTiles(tiles tileReader, now head, old *head) error {
	if now.tree.N == 0 {
		return nil
	}
	hashes := tlog.TileHashReader(now.tree, tiles)
	var indexes []int64
	for n := int64(0); n < now.tree.N; n++ {
		indexes = append(indexes, tlog.StoredHashIndex(0, n))
	}
	if _, err := hashes.ReadHashes(indexes); err != nil {
		return err
	}
	if old == nil || old.tree.N == 0 {
		return nil
	}
	if old.tree.N > now.tree.N {
		return fmt.Errorf("the log has %d entries, not %d", now.tree.N, old.tree.N)
	}
	proof, err := tlog.ProveTree(now.tree.N, old.tree.N, hashes)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, now.tree.N, now.tree.Hash, old.tree.N, old.tree.Hash)
}

// The address of a log. Reads tiles as the checksum database wants them from where the
// specification has them.
type tileReader string

func (tileReader) Height() int { return layout.TileHeight }

func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

func (reader tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range tiles {
		partial := uint8(tile.W % layout.TileWidth)
		path := layout.TilePath(uint64(tile.L), uint64(tile.N), partial)
		data, err := reader.get(path)
		if errors.Is(err, os.ErrNotExist) && partial > 0 {
			data, err = reader.get(layout.TilePath(uint64(tile.L), uint64(tile.N), 0))
			if err == nil {
				data = data[:min(len(data), tile.W*tlog.HashSize)]
			}
		}
		if err != nil {
			return nil, err
		}
		found = append(found, data)
	}
	return found, nil
}

func (reader tileReader) get(path string) ([]byte, error) {
	answer, err := http.Get(string(reader) + "/" + path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d: %w", path, answer.StatusCode, os.ErrNotExist)
	}
	return io.ReadAll(answer.Body)
}
