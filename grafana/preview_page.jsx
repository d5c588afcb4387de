// Draws one board with Grafana's own panels, as far as its packages export them. board.json: {board, results, start, end}.
import React from 'react';
import { createRoot } from 'react-dom/client';
import {
  BarGauge, BarGaugeDisplayMode, BigValue, BigValueColorMode, BigValueGraphMode, BigValueJustifyMode, BigValueTextMode,
  PanelChrome, StackingMode, TimeSeries,
} from '@grafana/ui';
import { ThemeContext, VizOrientation, createTheme, dateTime, FieldType, getDisplayProcessor, toDataFrame } from '@grafana/data';

const theme = createTheme({ colors: { mode: 'dark' } });
const { board, results, start, end } = window.BOARD;
const CELL = 62, ROW = 38, GAP = 8;
const range = { from: dateTime(start * 1000), to: dateTime(end * 1000), raw: { from: dateTime(start * 1000), to: dateTime(end * 1000) } };

const named = (format, labels) =>
  !format || format === '__auto'
    ? Object.entries(labels).map(([key, value]) => `${key}="${value}"`).join(' ')
    : format.replace(/{{\s*(\w+)\s*}}/g, (_, label) => labels[label] ?? '').trim();

const overridesOf = (panel, name) =>
  panel.fieldConfig.overrides
    .filter((one) => one.matcher.id === 'byName' && one.matcher.options === name)
    .flatMap((one) => one.properties);

const configOf = (panel, name) => {
  const config = { ...panel.fieldConfig.defaults, custom: { ...panel.fieldConfig.defaults.custom }, displayName: name };
  for (const { id, value } of overridesOf(panel, name)) {
    if (id.startsWith('custom.')) config.custom[id.slice(7)] = value;
    else config[id] = value;
  }
  // What Grafana takes by default.
  config.color ??= { mode: panel.type === 'timeseries' ? 'palette-classic' : 'thresholds' };
  return config;
};

const seriesOf = (panel) =>
  (panel.targets ?? []).flatMap((target) =>
    (results[`${panel.id} ${target.refId}`] ?? []).map((row) => ({ ...row, name: named(target.legendFormat, row.metric) })));

const frameOf = (panel, { name, values }, index) => {
  const times = values.map(([at]) => at * 1000), numbers = values.map(([, value]) => Number(value));
  const frame = toDataFrame({
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: times },
      { name, type: FieldType.number, values: numbers, config: configOf(panel, name) },
    ],
  });
  const known = numbers.filter((one) => Number.isFinite(one));
  const spread = { min: Math.min(...known), max: Math.max(...known), delta: Math.max(...known) - Math.min(...known) };
  frame.fields.forEach((field) => {
    field.state = { seriesIndex: index, range: spread };
    field.display = getDisplayProcessor({ field, theme });
  });
  return frame;
};

const last = (frame) => {
  const field = frame.fields[1];
  const value = [...field.values].reverse().find((one) => !Number.isNaN(one));
  return { ...field.display(value), title: frame.name };
};

const lines = (panel, width, height) => {
  const frames = seriesOf(panel).map((one, index) => frameOf(panel, one, index));
  if (panel.fieldConfig.defaults.custom.stacking?.mode === 'normal') {
    frames.forEach((frame) => (frame.fields[1].config.custom.stacking = { mode: StackingMode.Normal, group: 'A' }));
  }
  return (
    <TimeSeries frames={frames} structureRev={1} timeRange={range} timeZone="browser" width={width} height={height}
      legend={{ ...panel.options.legend, displayMode: 'list', calcs: [] }} options={{}} />
  );
};

const tile = (panel, width, height) => {
  const frame = frameOf(panel, seriesOf(panel)[0], 0);
  return (
    <BigValue width={width} height={height} theme={theme} value={{ ...last(frame), title: undefined }}
      sparkline={{ y: frame.fields[1], x: frame.fields[0] }} graphMode={BigValueGraphMode.Area}
      colorMode={panel.options.colorMode === 'none' ? BigValueColorMode.None : BigValueColorMode.Value}
      justifyMode={BigValueJustifyMode.Auto} textMode={BigValueTextMode.Auto} />
  );
};

const bars = (panel, width, height) => {
  const found = seriesOf(panel).map((one, index) => frameOf(panel, one, index));
  const each = Math.floor(height / found.length) - 6;
  return found.map((frame, index) => (
    <div key={index} style={{ marginBottom: 6 }}>
      <BarGauge width={width} height={each} theme={theme} value={last(frame)} display={frame.fields[1].display}
        field={{ ...frame.fields[1].config, min: 0, max: frame.fields[1].config.max ?? 1 }} text={{}} orientation={VizOrientation.Horizontal} displayMode={BarGaugeDisplayMode.Basic} />
    </div>
  ));
};

// The transformations that boards use: merge rows by their labels, then order, rename and hide.
const rows = (panel, width, height) => {
  const merged = new Map();
  for (const target of panel.targets) {
    const column = panel.targets.length > 1 ? `Value #${target.refId}` : 'Value';
    for (const { metric, value } of results[`${panel.id} ${target.refId}`] ?? []) {
      const key = JSON.stringify(Object.entries(metric).sort());
      merged.set(key, { ...(merged.get(key) ?? metric), [column]: Number(value[1]) });
    }
  }
  const { indexByName, renameByName, excludeByName } = panel.transformations.at(-1).options;
  const place = (name) => indexByName[name] ?? Number.MAX_SAFE_INTEGER;
  const columns = [...new Set([...merged.values()].flatMap(Object.keys))].filter((name) => !excludeByName[name]);
  columns.sort((one, other) => place(one) - place(other));
  const frame = toDataFrame({
    fields: columns.map((name) => ({
      name: renameByName[name] ?? name,
      type: name.startsWith('Value') ? FieldType.number : FieldType.string,
      values: [...merged.values()].map((row) => row[name] ?? null),
      config: configOf(panel, renameByName[name] ?? name),
    })),
  });
  frame.fields.forEach((field) => (field.display = getDisplayProcessor({ field, theme })));
  return <PlainTable frame={frame} height={height} />;
};

// Grafana's own table does not draw outside of it; its values, units and colours are the same here.
const PlainTable = ({ frame, height }) => (
  <div style={{ maxHeight: height, overflow: 'hidden', fontSize: 13 }}>
    <table style={{ width: '100%' }}>
      <thead>
        <tr>{frame.fields.map((field) => <th key={field.name} style={{ textAlign: 'left' }}>{field.name}</th>)}</tr>
      </thead>
      <tbody>
        {Array.from({ length: frame.length }, (_, row) => (
          <tr key={row}>{frame.fields.map((field) => <Cell key={field.name} field={field} value={field.values[row]} />)}</tr>
        ))}
      </tbody>
    </table>
  </div>
);

const Cell = ({ field, value }) => {
  const shown = value === null ? { text: '' } : field.display(value);
  const coloured = field.config.custom?.cellOptions?.type === 'color-text';
  return <td style={{ color: coloured ? shown.color : undefined }}>{`${shown.text}${shown.suffix ?? ''}`}</td>;
};

const KINDS = { timeseries: lines, stat: tile, bargauge: bars, table: rows };

const drawn = (panel, width, height) => {
  if (panel.type === 'text') return <div style={{ whiteSpace: 'pre-wrap' }}>{panel.options.content}</div>;
  if (!panel.targets.some((target) => results[`${panel.id} ${target.refId}`]?.length)) {
    return <div style={{ opacity: 0.6 }}>{panel.fieldConfig.defaults.noValue}</div>;
  }
  const draw = KINDS[panel.type];
  return draw ? draw(panel, width, height) : <div style={{ opacity: 0.6 }}>{panel.type}: only in Grafana itself</div>;
};

class Guarded extends React.Component {
  state = {};
  static getDerivedStateFromError(error) { return { error }; }
  render() {
    return this.state.error ? <div data-failed style={{ color: 'red' }}>{this.props.name}: {String(this.state.error)}</div> : this.props.children;
  }
}

// Collapsed rows are drawn open, below one another.
let shift = 0;
const placed = board.panels.flatMap((panel) => {
  const here = [{ panel, top: panel.gridPos.y + shift }];
  if (panel.type !== 'row' || !panel.panels?.length) return here;
  here.push(...panel.panels.map((inner) => ({ panel: inner, top: inner.gridPos.y + shift })));
  shift += Math.max(...panel.panels.map((inner) => inner.gridPos.y + inner.gridPos.h)) - panel.gridPos.y - 1;
  return here;
});
const bottom = Math.max(...placed.map(({ panel, top }) => top + panel.gridPos.h));

const Panel = ({ panel, top }) => {
  const { x, w, h } = panel.gridPos, width = w * CELL - GAP, height = h * ROW - GAP;
  const style = { position: 'absolute', left: x * CELL, top: top * ROW, width, height };
  if (panel.type === 'row') return <div style={{ ...style, fontSize: 18, paddingTop: 6 }}>{panel.title}</div>;
  return (
    <div style={style}>
      <PanelChrome title={panel.title.replace('$top', '10')} width={width} height={height}>
        {(inner, innerHeight) => <Guarded name={panel.title}>{drawn(panel, inner, innerHeight)}</Guarded>}
      </PanelChrome>
    </div>
  );
};

createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <div style={{ position: 'relative', width: 24 * CELL, height: bottom * ROW, fontFamily: theme.typography.fontFamily }}>
      {placed.map((one) => <Panel key={one.panel.id} {...one} />)}
    </div>
  </ThemeContext.Provider>
);
