package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// terminal says whether w is one, and so whether lines on it may move.
func terminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// palette colours text, or leaves it as it is.
type palette bool

// palette for what is written to w.
func (e Env) palette(w io.Writer) palette {
	return palette(terminal(w) && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb")
}

func (p palette) paint(code, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p palette) red(text string) string    { return p.paint("31", text) }
func (p palette) green(text string) string  { return p.paint("32", text) }
func (p palette) yellow(text string) string { return p.paint("33", text) }
func (p palette) dim(text string) string    { return p.paint("2", text) }

// status colours a state by what it means for its reader.
func (p palette) status(text string) string {
	switch strings.TrimRight(text, " ") {
	case "running", "ready", OK:
		return p.green(text)
	case "failed", Fail:
		return p.red(text)
	}
	return p.yellow(text)
}

// table prints rows in columns; the first row is the heading.
func (s *session) table(rows [][]string) error {
	colours := s.palette(s.Stdout)
	heading := rows[0]
	return printColumns(s.Stdout, rows, func(row, column int, text string) string {
		switch {
		case row == 0:
			return colours.dim(text)
		case heading[column] == "STATUS":
			return colours.status(text)
		}
		return text
	})
}

// fields prints names and values, one pair a line.
func (s *session) fields(rows [][]string) error {
	colours := s.palette(s.Stdout)
	return printColumns(s.Stdout, rows, func(row, column int, text string) string {
		switch {
		case column == 0:
			return colours.dim(text)
		case rows[row][0] == "status":
			return colours.status(text)
		}
		return text
	})
}

// printColumns aligns by what is seen: colours are put on after measuring.
func printColumns(w io.Writer, rows [][]string, paint func(row, column int, text string) string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for column := range row {
			row[column] = clean(row[column])
			widths[column] = max(widths[column], utf8.RuneCountInString(row[column]))
		}
	}
	for n, row := range rows {
		var line strings.Builder
		for column, text := range row {
			line.WriteString(paint(n, column, text))
			if column < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[column]-utf8.RuneCountInString(text)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(line.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// bytesOf gives a size in the largest unit that keeps a digit before the point.
func bytesOf(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1000, 0
	for value >= 999.95 && unit < len(units)-1 {
		value /= 1000
		unit++
	}
	return fmt.Sprintf("%.1f %cB", value, units[unit])
}
