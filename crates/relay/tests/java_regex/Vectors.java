// Answers the vectors anew: java Vectors.java <vectors.tsv >answered.tsv

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

public class Vectors {
    public static void main(String[] arguments) {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            String line = lines.nextLine();
            if (line.startsWith("# java.version:")) {
                line = "# java.version: " + System.getProperty("java.version");
            } else if (!line.startsWith("#")) {
                String[] cells = line.split("\t");
                cells[3] = answer(read(cells[0]), read(cells[1]));
                line = String.join("\t", cells);
            }
            out.print(line + "\n");
        }
        out.flush();
    }

    /** The groups of the first match, if the whole text matches; the first is the match itself. */
    private static String answer(String pattern, String text) {
        Matcher matcher;
        try {
            matcher = Pattern.compile(pattern).matcher(text);
        } catch (PatternSyntaxException refused) {
            return "refused";
        }
        if (!matcher.matches()) {
            return "null";
        }
        matcher.reset();
        matcher.find();
        StringBuilder groups = new StringBuilder();
        for (int group = 0; group <= matcher.groupCount(); group++) {
            groups.append(group == 0 ? "[" : ",").append(written(matcher.group(group)));
        }
        return groups.append("]").toString();
    }

    /** A text in JSON, of which the vectors use no escapes but these. */
    private static String read(String json) {
        StringBuilder text = new StringBuilder();
        for (int at = 1; at < json.length() - 1; at++) {
            char c = json.charAt(at);
            if (c == '\\' && json.charAt(++at) == 'u') {
                c = (char) Integer.parseInt(json.substring(at + 1, at + 5), 16);
                at += 4;
            } else if (c == '\\') {
                c = json.charAt(at);
            }
            text.append(c);
        }
        return text.toString();
    }

    private static String written(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                json.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                json.append(String.format("\\u%04x", (int) c));
            } else {
                json.append(c);
            }
        }
        return json.append('"').toString();
    }
}
