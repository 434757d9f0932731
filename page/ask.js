// A dialog that asks for the fields of a command and sends it.

import { call, once } from "./api.js";
import { form, wholeOf } from "./forms.js";
import { dialog, finish } from "./ui.js";

/**
 * Opens a dialog whose fields are the body of a command. Leaves out empty fields. `body`: other fields. `method`: POST, if
 * not given. `said`: returns the text afterwards. `done`: called with the answer.
 */
export function ask(title, fields, submit, path, { me, done, body = {}, said, method = "POST" }) {
  dialog(title, (box) => form({ class: "stack" }, fields, submit, async (made) => {
    const given = [...made.elements].filter(({ name, value }) => name && value).map((control) => [control.name, control.type === "number" ? wholeOf(control) : control.value]);
    const wanted = { ...body, ...Object.fromEntries(given) };
    const answer = await once(path, wanted, (key) => call(method, path, { body: wanted, as: me, key }));
    await finish(box, said(answer), () => done(answer));
  }));
}
