package commands

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/unpack"
	"github.com/zksh/zksh/internal/userfile"
	"github.com/zksh/zksh/internal/zkconn"
)

var getCommand = &Command{
	Name: "get", Group: "Reading", Effect: OneRequest,
	Except:  ByFlag(map[string]Effect{"file": OneRequest}),
	Args:    "[-s] [-w] [-b] [-x] [-j] [-d] [-f file] path",
	Summary: "print a znode's data",
	Help: "If the znode has no data, get prints null. With -f, get writes the data to a file, byte for byte, and " +
		"prints nothing.\n\n" +
		"With -d, get decodes data that is compressed with gzip, zlib or snappy. After decoding, get prints a note " +
		"that names the format. It prints other data as it is.\n\n" +
		"For other encodings and character sets, use a pipe: get /app/config | iconv -f gbk.",
	Limits:   []string{"The decoded data can be at most 16 MiB."},
	Examples: []string{"get -s /app/config", "get -f config.json /app/config", "get -d /collections/books/state.json"},
	Params:   []Param{pathParam, watchParam},
	Passing:  watchPasses,
	Flags: func(fs *pflag.FlagSet) Run {
		stat := fs.BoolP("stat", "s", false, "also print the znode's stat")
		watch := fs.BoolP("watch", "w", false, "set a watch on the data")
		b64 := fs.BoolP("base64", "b", false, "print the data in base64")
		hex := fs.BoolP("hex", "x", false, "print a hex dump of the data")
		pretty := fs.BoolP("json", "j", false, "print JSON data with indentation; fail if the data is not JSON")
		file := fs.StringP("file", "f", "", "write the data to this `file`, byte for byte; - means standard output")
		decode := fs.BoolP("decode", "d", false, "decode data that is compressed with gzip, zlib or snappy")
		FlagFile(fs, "file")
		return func(ctx context.Context, env *Env, args []string) error {
			w, err := watchArg(env, args, *watch, "get path [watch]", "get [-s] [-w] path")
			if err != nil {
				return err
			}
			node, err := zkconn.Do(ctx, env.Session, zkconn.GetData(args[0]).Watch(w))
			data := node.Data
			if err == nil && *decode {
				data, err = decompress(env, args[0], data)
			}
			if err != nil {
				return err
			}
			if fs.Changed("file") {
				if *file == "-" || userfile.IsStdout(*file) {
					return env.Screen.Print(render.Answer{Words: string(data), JSON: render.Data(data)})
				}
				return env.answer(SaveFile(*file, data), done("get", args[0]))
			}
			cell := string(data)
			if data == nil {
				cell = "null"
			}
			words := cell
			switch {
			case *pretty && !json.Valid(data):
				return fmt.Errorf("the data of %s is not valid JSON; omit -j to print it as it is", args[0])
			case *pretty:
				words = reformat(cell, indentJSON)
			case *hex:
				words = hexDump([]byte(cell))
			case *b64:
				words = base64.StdEncoding.EncodeToString([]byte(cell))
				if data != nil {
					cell = words
				}
			}
			return env.Screen.Print(getAnswer(args[0], data, words, cell, statIfWanted(*stat, node.Stat)))
		}
	},
}

// getAnswer returns the result of the command get. words is the data for text output, and cell is
// the data for a table cell.
func getAnswer(path string, data []byte, words, cell string, stat *render.Stat) render.Answer {
	g := render.Grid{Header: []string{"field", "value"}, Rows: [][]string{{"path", path}, {"data", cell}}}
	if stat != nil {
		g.Rows = append(g.Rows, stat.Table().Rows...)
	}
	return render.Answer{Words: words + "\n", Stat: stat, Grid: g,
		JSON: render.Facts{"path", path, "data", render.Data(data), "stat", stat}}
}

// decompress decompresses the data of the znode at path. If the data is compressed, it prints a note
// that names the format.
func decompress(env *Env, path string, data []byte) ([]byte, error) {
	plain, format, err := unpack.Data(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; to print the data as it is, omit -d", path, err)
	}
	if format != "" {
		env.Screen.Note("decoded: " + format)
	}
	return plain, nil
}

// hexDump formats data like the hex dump of netty, which zkCli uses: a header, 16 bytes per line,
// and a rule at the end.
func hexDump(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	const head = "         +-------------------------------------------------+\n" +
		"         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |\n"
	const rule = "+--------+-------------------------------------------------+----------------+"
	out := []byte(head + rule + "\n")
	for at := 0; at < len(data); at += 16 {
		row := data[at:min(at+16, len(data))]
		shown := bytes.Clone(row)
		for i, b := range shown {
			if b <= 0x1f || b >= 0x7f {
				shown[i] = '.'
			}
		}
		out = fmt.Appendf(out, "|%08x| %-47s |%-16s|\n", at, fmt.Sprintf("% x", row), shown)
	}
	return string(append(out, rule...))
}
